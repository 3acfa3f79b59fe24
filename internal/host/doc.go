// Package host has the parts of a host outside its activities: it bounds the sandboxes (Capacity), delays
// rollouts (Admission, Starts), keeps warm sandboxes (WarmPool), renews leases during activities (Leases),
// runs the activities of an attempt one at a time (Attempts), and cleans up after crashes (Takeover,
// Janitor).
package host
