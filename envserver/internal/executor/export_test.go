package executor

// Generations is the number of trajectories whose releases are in memory.
func (a *API) Generations() int { return len(a.generations) }
