// Stands in for NVIDIA's dcgm-exporter in a lab, which has no DCGM: the same address, metric names and labels, with
// values that the simulated NVML reports. It tells nothing of MIG devices and of the pods that hold a GPU.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The real one asks kubelet there which pod holds which GPU.
const podResources = "/var/lib/kubelet/pod-resources/kubelet.sock"

const lastXid = "DCGM_FI_DEV_XID_ERRORS"

type field struct {
	name, kind, help string
	read             func(nvml.Device) (uint64, nvml.Return)
}

var fields = []field{
	{"DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", clock(nvml.CLOCK_SM)},
	{"DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", clock(nvml.CLOCK_MEM)},
	{"DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", temperature},
	{"DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", power},
	{"DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", utilization},
	{"DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", memory(false)},
	{"DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", memory(true)},
}

// The GPUs of the beginning, as of DCGM, and the last Xid of each by UUID.
var (
	gpus []nvml.Device
	lock sync.Mutex
	xids = map[string]uint64{}
)

func main() {
	log.Print("stand-in for NVIDIA's dcgm-exporter, for a lab with simulated GPUs")
	if os.Getenv("DCGM_EXPORTER_KUBERNETES") == "true" {
		if _, err := os.Stat(podResources); err != nil {
			log.Fatalf("no socket of kubelet: %v", err)
		}
	}
	if result := nvml.Init(); result != nvml.SUCCESS {
		log.Fatalf("NVML does not start: %s", nvml.ErrorString(result))
	}
	gpus = devices()
	watch()
	http.HandleFunc("/health", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprint(answer, "OK") })
	http.HandleFunc("/metrics", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprint(answer, metrics()) })
	address := os.Getenv("DCGM_EXPORTER_LISTEN")
	if address == "" {
		address = ":9400"
	}
	log.Fatal(http.ListenAndServe(address, nil))
}

// As the real one, it leaves out what a GPU does not tell.
func metrics() string {
	var text strings.Builder
	for _, each := range fields {
		section(&text, each.name, each.kind, each.help, func(device nvml.Device, _ string) (uint64, bool) {
			value, result := each.read(device)
			return value, result == nvml.SUCCESS
		})
	}
	section(&text, lastXid, "gauge", "Value of the last XID error encountered.",
		func(_ nvml.Device, uuid string) (uint64, bool) {
			lock.Lock()
			defer lock.Unlock()
			return xids[uuid], true
		})
	return text.String()
}

func section(text *strings.Builder, name, kind, help string, read func(nvml.Device, string) (uint64, bool)) {
	fmt.Fprintf(text, "# HELP %s %s (simulated)\n# TYPE %s %s\n", name, help, name, kind)
	for index, device := range gpus {
		uuid, _ := device.GetUUID()
		value, known := read(device, uuid)
		if !known {
			continue
		}
		more := ""
		if name == lastXid {
			more = fmt.Sprintf(`,err_code="%d"`, value)
		}
		fmt.Fprintf(text, "%s{%s%s} %d\n", name, labels(index, device, uuid), more, value)
	}
}

func labels(index int, device nvml.Device, uuid string) string {
	name, _ := device.GetName()
	driver, _ := nvml.SystemGetDriverVersion()
	pci, _ := device.GetPciInfo()
	bus := strings.TrimRight(string(pci.BusId[:]), "\x00")
	host := os.Getenv("NODE_NAME")
	return fmt.Sprintf(`gpu="%d",UUID="%s",pci_bus_id="%s",device="nvidia%d",modelName="%s",Hostname="%s",`+
		`DCGM_FI_DRIVER_VERSION="%s"`, index, uuid, bus, index, name, host, driver)
}

func devices() []nvml.Device {
	var found []nvml.Device
	count, _ := nvml.DeviceGetCount()
	for index := 0; index < count; index++ {
		if device, result := nvml.DeviceGetHandleByIndex(index); result == nvml.SUCCESS {
			found = append(found, device)
		}
	}
	return found
}

// The driver reports an Xid to those who have asked for it.
func watch() {
	set, result := nvml.EventSetCreate()
	if result != nvml.SUCCESS {
		log.Fatalf("NVML has no events: %s", nvml.ErrorString(result))
	}
	for _, device := range gpus {
		device.RegisterEvents(nvml.EventTypeXidCriticalError, set)
	}
	go func() {
		for {
			event, result := set.Wait(1000)
			if result != nvml.SUCCESS {
				continue
			}
			uuid, _ := event.Device.GetUUID()
			lock.Lock()
			xids[uuid] = event.EventData
			lock.Unlock()
		}
	}()
}

func clock(kind nvml.ClockType) func(nvml.Device) (uint64, nvml.Return) {
	return func(device nvml.Device) (uint64, nvml.Return) {
		value, result := device.GetClockInfo(kind)
		return uint64(value), result
	}
}

func temperature(device nvml.Device) (uint64, nvml.Return) {
	value, result := device.GetTemperature(nvml.TEMPERATURE_GPU)
	return uint64(value), result
}

func power(device nvml.Device) (uint64, nvml.Return) {
	value, result := device.GetPowerUsage()
	return uint64(value) / 1000, result
}

func utilization(device nvml.Device) (uint64, nvml.Return) {
	value, result := device.GetUtilizationRates()
	return uint64(value.Gpu), result
}

func memory(used bool) func(nvml.Device) (uint64, nvml.Return) {
	return func(device nvml.Device) (uint64, nvml.Return) {
		value, result := device.GetMemoryInfo()
		if used {
			return value.Used >> 20, result
		}
		return value.Free >> 20, result
	}
}
