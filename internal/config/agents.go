package config

import "fmt"

// Agent describes a command-line agent; docs/agents.md explains the fields.
type Agent struct {
	Name      string            `yaml:"name"`
	Package   string            `yaml:"package"`
	Integrity map[string]string `yaml:"integrity"`
	Folder    string            `yaml:"folder"`
	Check     []string          `yaml:"check"`
	Command   []string          `yaml:"command"`
	Env       map[string]string `yaml:"env"`
	Files     map[string]string `yaml:"files"`
	Output    string            `yaml:"output"`
	Failure   string            `yaml:"failure"`
	Result    string            `yaml:"result"`
}

// validateAgents checks the settings that can be checked without the agents.
func (c Config) validateAgents(p *problems) {
	seen := map[string]bool{}

	for i, a := range c.Agents {
		path := fmt.Sprintf("agents[%d]", i)
		p.check(a.Name != "", path+".name", "must be the name by which rollouts ask for the agent")
		p.check(!seen[a.Name], path+".name", "%q is defined twice", a.Name)
		p.check(len(a.Command) > 0, path+".command", "must be a command line")
		seen[a.Name] = true
	}
}
