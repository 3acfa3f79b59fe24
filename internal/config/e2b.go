package config

// E2B has the settings of the backend e2b.
type E2B struct {
	APIKey string `yaml:"api_key"`

	// domain of a service with E2B's API; empty: e2b.app
	Domain string `yaml:"domain"`

	// URL of the control plane; empty: https://api.DOMAIN
	APIURL string `yaml:"api_url"`

	// at which all sandboxes are reached; empty: derived from the domain
	SandboxURL string `yaml:"sandbox_url"`

	// template of sandboxes that name no image; empty: each must name one
	Template string `yaml:"template"`

	// sandboxes that this host makes a second, at most
	CreateRate float64 `yaml:"create_rate"`

	// agents' sandboxes that this host has at a time
	Sandboxes int `yaml:"sandboxes"`
}

func (e E2B) validate(p *problems) {
	if e.APIURL != "" {
		p.httpURL("sandbox.e2b.api_url", e.APIURL)
	}

	if e.SandboxURL != "" {
		p.httpURL("sandbox.e2b.sandbox_url", e.SandboxURL)
	}

	p.check(e.CreateRate > 0, "sandbox.e2b.create_rate", "must be more than 0, got %g", e.CreateRate)
	p.check(e.Sandboxes > 0, "sandbox.e2b.sandboxes", "must be at least 1, got %d", e.Sandboxes)
}
