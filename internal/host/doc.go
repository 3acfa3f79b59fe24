// Package host is what a host does beside its activities: it decides how many sandboxes it takes (Capacity), when a rollout may
// begin (Admission, Starts), keeps warm sandboxes (WarmPool), keeps sandboxes alive while an activity works in them (Leases), runs the activities of one attempt
// one at a time (Attempts), and cleans up after crashes (Takeover, Janitor).
package host
