package supervisor

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// workingShare is the share of one core above which an agent without a model call makes progress, on a
// machine with a free core. An idle OpenCode uses about 0.02; one that starts uses a whole core.
const workingShare = 0.05

// workingShareAt is workingShare for a load average and a number of cores. With more processes than cores a
// starting agent gets only its share of them, and half of that share counts as progress.
func workingShareAt(load float64, cores int) float64 {
	if load <= 0 {
		return workingShare
	}

	return min(workingShare, float64(cores)/load/2)
}

// currentWorkingShare is workingShareAt for this machine's load average of the last minute.
func currentWorkingShare() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return workingShare
	}

	load, _, _ := strings.Cut(string(text), " ")

	minute, err := strconv.ParseFloat(load, 64)
	if err != nil {
		return workingShare
	}

	return workingShareAt(minute, runtime.NumCPU())
}
