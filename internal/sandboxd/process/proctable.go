package process

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// procEntry is one process of the sandbox as shown by /proc.
type procEntry struct {
	pid, ppid, session int

	// every thread has exited and it is not reaped yet; from a stat line alone: its first thread has exited
	dead bool

	// its first thread is in interruptible sleep
	asleep bool

	// its first thread runs, or would as soon as a processor is free
	runs bool
}

// fromOutside reports whether the process was started in the sandbox from outside, for instance by an exec
// of a container engine: it carries a control connection. Its parent is outside of this process namespace.
// A process of the sandbox cannot achieve that, since the first process inherits all orphans.
func (e procEntry) fromOutside() bool { return e.pid != 1 && e.ppid == 0 }

// active reports whether the first thread is not stopped and can be. One in uninterruptible sleep cannot: it may wait for
// a child that is stopped before its exec.
func (e procEntry) active() bool { return e.runs || e.asleep }

func (e procEntry) alive() bool { return !e.dead }

// procTable lists the visible processes. It skips one that ends meanwhile.
func procTable() ([]procEntry, error) {
	names, err := namesInProc(".")
	if err != nil {
		return nil, err
	}

	var list []procEntry

	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}

		stat, err := readProc(name + "/stat")
		if err != nil {
			continue
		}

		if e, err := parseStat(pid, stat); err == nil {
			e.dead = e.dead && !anyThread(pid, procEntry.alive)
			list = append(list, e)
		}
	}

	return list, nil
}

// parseStat reads a /proc/<pid>/stat line: pid (comm) state ppid pgrp session …. comm may contain blanks
// and parentheses, so the fields are counted from its last one.
func parseStat(pid int, stat []byte) (procEntry, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return procEntry{}, fmt.Errorf("stat of process %d: no command", pid)
	}

	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 4 {
		return procEntry{}, fmt.Errorf("stat of process %d: %d fields", pid, len(fields))
	}

	ppid, err1 := strconv.Atoi(string(fields[1]))

	session, err2 := strconv.Atoi(string(fields[3]))
	if err1 != nil || err2 != nil {
		return procEntry{}, fmt.Errorf("stat of process %d: not numbers", pid)
	}

	state := fields[0][0]

	return procEntry{
		pid:     pid,
		ppid:    ppid,
		session: session,
		dead:    state == 'Z' || state == 'X',
		asleep:  state == 'S',
		runs:    state == 'R',
	}, nil
}

// anyThread reports whether one of the process's threads has the state: the process's own line shows only the first
// thread, which may have exited or stopped before the others.
func anyThread(pid int, has func(procEntry) bool) bool {
	return slices.ContainsFunc(filesOfThreads(pid, "stat"), func(stat []byte) bool {
		thread, err := parseStat(pid, stat)
		return err == nil && has(thread)
	})
}

// tracersOf returns the threads that trace a thread of the process.
func tracersOf(pid int) []int {
	var tracers []int

	for _, status := range filesOfThreads(pid, "status") {
		for line := range bytes.Lines(status) {
			value, ok := bytes.CutPrefix(line, []byte("TracerPid:"))
			if tracer, err := strconv.Atoi(string(bytes.TrimSpace(value))); ok && err == nil && tracer != 0 {
				tracers = append(tracers, tracer)
			}
		}
	}

	return tracers
}
