// The depot's one program: files over HTTP and images over the registry protocol, from two directories.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

// Served read-only: the container that nodes talk to never writes; only the build does, on the loopback address.
const settings = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
  maintenance: {uploadpurging: {enabled: false}, readonly: {enabled: %t}}
http: {addr: %q, secret: depot}
`

func main() {
	files := flag.String("files", "", "directory to serve over HTTP")
	http80 := flag.String("http", ":80", "address of the HTTP server")
	storage := flag.String("storage", "", "directory of the registry")
	address := flag.String("registry", ":5000", "address of the registry")
	writable := flag.Bool("writable", false, "accept images")
	flag.Parse()

	// Without this the registry looks for a collector of traces on this machine, for ever.
	os.Setenv("OTEL_TRACES_EXPORTER", "none")

	failed := make(chan error)
	if *files != "" {
		go func() { failed <- http.ListenAndServe(*http80, http.FileServer(http.Dir(*files))) }()
	}
	if *storage != "" {
		go func() { failed <- serveImages(*storage, *address, *writable) }()
	}
	log.Fatal(<-failed)
}

func serveImages(storage, address string, writable bool) error {
	text := fmt.Sprintf(settings, storage, !writable, address)
	config, err := configuration.Parse(strings.NewReader(text))
	if err != nil {
		return err
	}
	images, err := registry.NewRegistry(context.Background(), config)
	if err != nil {
		return err
	}
	return images.ListenAndServe()
}
