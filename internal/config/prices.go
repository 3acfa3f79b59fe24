package config

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// prices reads "gpt-4o-mini=0.15/0.6,…": dollars for a million prompt and completion tokens. A model's name may have "=" in it.
func prices(c *Config, v string) error {
	c.Prices = map[string]rollout.Price{}
	for item := range strings.SplitSeq(v, ",") {
		item = strings.TrimSpace(item)
		at := max(strings.LastIndex(item, "="), 0)
		prompt, completion, _ := strings.Cut(item[min(at+1, len(item)):], "/")
		in, errIn := strconv.ParseFloat(prompt, 64)
		out, errOut := strconv.ParseFloat(completion, 64)
		if at == 0 || errIn != nil || errOut != nil {
			return errors.New(`want dollars for a million prompt and completion tokens by model, such as "gpt-4o-mini=0.15/0.6"`)
		}
		c.Prices[item[:at]] = rollout.Price{Prompt: in, Completion: out}
	}
	return nil
}

func (c Config) validatePrices(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Prices)) {
		price := c.Prices[name]
		p.check(price.Prompt >= 0 && price.Completion >= 0, "prices."+name, "want 0 or more, got %g and %g", price.Prompt, price.Completion)
	}
}
