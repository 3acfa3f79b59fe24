package pool

// StatusOf is the status after a plan was carried out.
func StatusOf(o Observation, p Plan) Status {
	s := Status{
		At:        o.Now,
		Target:    p.Target,
		Backlog:   o.Backlog,
		Leaving:   p.Leaving,
		IdleSince: p.IdleSince,
		Did:       p.Why,
		Done:      p.Done,
	}
	if o.Job.Stopped || p.Done {
		return s
	}

	for _, g := range o.Job.Groups {
		if len(g.Allocs) == 0 && g.Count > 0 {
			s.Hosts = append(s.Hosts, HostLine{
				Group:    g.Name,
				Slots:    o.Spec.Slots,
				Outdated: g.Outdated,
				Nomad:    "not placed",
			})
		}

		for _, a := range g.Allocs {
			line := HostLine{
				Group:    g.Name,
				Host:     HostName(a.ID),
				Node:     a.Node,
				Alloc:    a.ID,
				Nomad:    a.State,
				Slots:    o.Spec.Slots,
				Outdated: g.Outdated,
				Why:      a.Why,
			}
			if h, ok := o.Hosts[line.Host]; ok {
				line.State, line.Slots, line.Used, line.Why = h.State, h.Total().Slots, h.Total().Used, h.Error
			}

			s.Hosts = append(s.Hosts, line)
		}
	}

	return s
}
