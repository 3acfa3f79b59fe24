package nomad

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/rolloutd/rolloutd/internal/pool"
)

// groups returns the groups of the job, if there is one, and the further groups of the spec, in the order
// of their numbers.
func groups(s pool.Spec, job *api.Job, allocs []*api.AllocationListStub) (all []pool.Group) {
	hash := templateHash(s)

	if job == nil {
		job = &api.Job{}
	}

	for i := range s.Max {
		if name := groupName(i); find(job, name) == nil {
			all = append(all, pool.Group{Name: name})
		}
	}

	for _, g := range job.TaskGroups {
		if g == nil || g.Name == nil {
			continue
		}

		one := pool.Group{Name: *g.Name, Count: 1, Outdated: g.Meta[metaTemplate] != hash}
		if g.Count != nil {
			one.Count = *g.Count
		}

		for _, a := range allocs {
			if a != nil && a.TaskGroup == one.Name && wanted(a) {
				one.Allocs = append(one.Allocs, pool.Alloc{
					ID:    a.ID,
					Node:  a.NodeName,
					State: a.ClientStatus,
					Why:   trouble(a),
				})
			}
		}

		all = append(all, one)
	}

	slices.SortStableFunc(all, func(a, b pool.Group) int { return number(a.Name) - number(b.Name) })

	return all
}

func find(job *api.Job, name string) *api.TaskGroup {
	i := slices.IndexFunc(job.TaskGroups, func(g *api.TaskGroup) bool {
		return g != nil && g.Name != nil && *g.Name == name
	})
	if i < 0 {
		return nil
	}

	return job.TaskGroups[i]
}

func groupName(i int) string { return fmt.Sprintf("host-%d", i) }

// number is the number of a group; groups with other names come last.
func number(name string) (n int) {
	if _, err := fmt.Sscanf(name, "host-%d", &n); err != nil {
		return 1 << 30
	}

	return n
}

// wanted reports whether the allocation runs or is to run.
func wanted(a *api.AllocationListStub) bool {
	live := []string{api.AllocClientStatusPending, api.AllocClientStatusRunning, api.AllocClientStatusUnknown}
	return a.DesiredStatus == api.AllocDesiredStatusRun && slices.Contains(live, a.ClientStatus)
}

// trouble is the last event of a task that does not run.
func trouble(a *api.AllocationListStub) string {
	for _, t := range a.TaskStates {
		if t == nil || t.State == "running" || len(t.Events) == 0 {
			continue
		}

		if e := t.Events[len(t.Events)-1]; e != nil {
			return fmt.Sprintf("%.300s", e.DisplayMessage)
		}
	}

	return ""
}

func submitted(job *api.Job) time.Time {
	if job.SubmitTime == nil {
		return time.Time{}
	}

	return time.Unix(0, *job.SubmitTime)
}

func active(d *api.Deployment) bool {
	return d != nil && !slices.Contains([]string{
		api.DeploymentStatusSuccessful, api.DeploymentStatusFailed, api.DeploymentStatusCancelled,
	}, d.Status)
}
