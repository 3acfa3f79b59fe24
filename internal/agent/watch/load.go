package watch

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// workingShare is the part of one core above which an agent that has not called its model yet makes progress, on a machine that has a core
// for it. An OpenCode that waits takes about 0.02; one that starts takes all it can get.
const workingShare = 0.05

// shareOf is workingShare on a machine with so many cores on which load processes want to run: where they are more than the cores, an
// agent that starts gets its share of them only, and half of that is progress.
func shareOf(load float64, cores int) float64 {
	if load <= 0 {
		return workingShare
	}
	return min(workingShare, float64(cores)/load/2)
}

// share is shareOf this machine, by its load of the last minute.
func share() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return workingShare
	}
	load, _, _ := strings.Cut(string(text), " ")
	minute, err := strconv.ParseFloat(load, 64)
	if err != nil {
		return workingShare
	}
	return shareOf(minute, runtime.NumCPU())
}
