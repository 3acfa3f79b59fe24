// Package timerslack sets how late the kernel may wake the threads of this process for their timers. With
// more slack, timers that are due about the same time share a wake-up, and the Go runtime's monitor, which
// sleeps 20 µs between its looks at a busy process, wakes less often.
package timerslack

import "time"

// Daemon is the slack of the daemons' threads: short compared with their timers, and ten times the sleep of
// the runtime's monitor.
const Daemon = 200 * time.Microsecond
