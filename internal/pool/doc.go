// Package pool decides how many hosts a pool on HashiCorp Nomad has. A pool is one Nomad job with a task
// group for each host that it may have; the count of a group is 0 or 1. So the pool chooses which host
// leaves, which Nomad's own scale-down does not allow, and a changed template never restarts a host with
// rollouts.
//
// Next is a pure function from an observation to a plan. Package nomad observes and changes the job.
package pool
