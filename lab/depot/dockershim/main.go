// Docker as a container runtime of Kubernetes, in the place of cri-dockerd, whose module can't be had everywhere: the
// dockershim of the last Kubernetes that had one, from which cri-dockerd was made, with cri-dockerd's options.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/docker/distribution/reference"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/jsonmessage"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1alpha2"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cri/streaming"
	"k8s.io/kubernetes/pkg/kubelet/dockershim"
)

// The newest of the API that still has what this Kubernetes reads of an image.
const dockerAPI = "1.43"

// Images come from the depot under upstream's names, as containerd's mirrors have it on other nodes: Docker has mirrors
// of Docker Hub only. Upstream's digests are not those of images that the depot has built.
type service struct {
	dockershim.DockerService
	docker *client.Client
	depot  string
	pause  string
}

func (s *service) RunPodSandbox(ctx context.Context, request *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	if _, _, err := s.docker.ImageInspectWithRaw(ctx, s.pause); err != nil {
		if err := s.pull(ctx, s.pause); err != nil {
			return nil, err
		}
	}
	return s.DockerService.RunPodSandbox(ctx, request)
}

func (s *service) PullImage(ctx context.Context, request *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	name := withoutDigest(request.Image.Image)
	if err := s.pull(ctx, name); err != nil {
		return nil, err
	}
	found, _, err := s.docker.ImageInspectWithRaw(ctx, name)
	return &cri.PullImageResponse{ImageRef: found.ID}, err
}

func (s *service) ImageStatus(ctx context.Context, request *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	request.Image.Image = withoutDigest(request.Image.Image)
	return s.DockerService.ImageStatus(ctx, request)
}

func (s *service) pull(ctx context.Context, name string) error {
	source := s.depot + "/" + name
	said, err := s.docker.ImagePull(ctx, source, types.ImagePullOptions{})
	if err != nil {
		return err
	}
	defer said.Close()
	if err := jsonmessage.DisplayJSONMessagesStream(said, io.Discard, 0, false, nil); err != nil {
		return err
	}
	return s.docker.ImageTag(ctx, source, name)
}

func withoutDigest(name string) string {
	named, err := reference.ParseNormalizedNamed(strings.Split(name, "@")[0])
	if err != nil || strings.HasPrefix(name, "sha256:") {
		return name
	}
	return reference.TagNameOnly(named).String()
}

// The registry that minikube was told to trust without TLS.
func depot(docker *client.Client) (string, error) {
	info, err := docker.Info(context.Background())
	if err != nil {
		return "", err
	}
	for name, index := range info.RegistryConfig.IndexConfigs {
		if !index.Secure {
			return name, nil
		}
	}
	return "", fmt.Errorf("no registry without TLS: start minikube with --insecure-registry=DEPOT")
}

func main() {
	pause := flag.String("pod-infra-container-image", "", "image of the container that holds a pod's namespaces")
	plugin := flag.String("network-plugin", "cni", "network plugin")
	hairpin := flag.String("hairpin-mode", config.HairpinVeth, "how a pod reaches itself by a Service")
	flag.String("container-runtime-endpoint", "fd://", "the socket, always that of systemd")
	flag.Parse()
	log.Fatal(serve(*pause, *plugin, *hairpin))
}

func serve(pause, plugin, hairpin string) error {
	// Without an endpoint the client takes the version of the API from its environment.
	if err := os.Setenv("DOCKER_API_VERSION", dockerAPI); err != nil {
		return err
	}
	docker, err := client.NewClientWithOpts(client.FromEnv)
	if err != nil {
		return err
	}
	from, err := depot(docker)
	if err != nil {
		return err
	}
	streams := streaming.DefaultConfig
	streams.Addr = "localhost:0"
	made, err := dockershim.NewDockerService(
		&dockershim.ClientConfig{RuntimeRequestTimeout: 2 * time.Minute, ImagePullProgressDeadline: time.Minute},
		pause,
		&streams,
		&dockershim.NetworkPluginSettings{
			HairpinMode:        config.HairpinMode(hairpin),
			PluginName:         plugin,
			PluginConfDir:      "/etc/cni/net.d",
			PluginBinDirString: "/opt/cni/bin",
			PluginCacheDir:     "/var/lib/cni/cache",
		},
		"", "", "/var/lib/dockershim",
	)
	if err != nil {
		return err
	}
	if err := made.Start(); err != nil {
		return err
	}
	runtime := &service{made, docker, from, pause}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.MaxSendMsgSize(16<<20))
	cri.RegisterRuntimeServiceServer(server, runtime)
	cri.RegisterImageServiceServer(server, runtime)
	// Today's kubelet speaks v1, which has the messages of v1alpha2 and more, under another name.
	renamed := http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		request.URL.Path = strings.Replace(request.URL.Path, "/runtime.v1.", "/runtime.v1alpha2.", 1)
		server.ServeHTTP(answer, request)
	})
	listener, err := net.FileListener(os.NewFile(3, "socket of systemd"))
	if err != nil {
		return err
	}
	return http.Serve(listener, h2c.NewHandler(renamed, &http2.Server{}))
}
