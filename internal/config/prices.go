package config

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// prices parses "gpt-4o-mini=0.15/0.6,…": US dollars per million prompt and completion tokens and,
// optionally, per million cached prompt tokens. A model's name may contain "=".
func prices(c *Config, v string) error {
	c.Prices = map[string]rollout.Price{}

	for item := range strings.SplitSeq(v, ",") {
		item = strings.TrimSpace(item)
		at := max(strings.LastIndex(item, "="), 0)

		price, ok := PriceOf(item[min(at+1, len(item)):])
		if at == 0 || !ok {
			return errors.New(
				`must be MODEL=PROMPT/COMPLETION or MODEL=PROMPT/COMPLETION/CACHED_PROMPT, in dollars per million tokens, such as "gpt-4o-mini=0.15/0.6/0.075"`,
			)
		}

		c.Prices[item[:at]] = price
	}

	return nil
}

// PriceOf parses "0.15/0.6": US dollars per million prompt and completion tokens and, optionally, per million cached
// prompt tokens.
func PriceOf(v string) (rollout.Price, bool) {
	parts := strings.Split(v, "/")

	dollars := make([]float64, len(parts))
	for i, part := range parts {
		var err error
		if dollars[i], err = strconv.ParseFloat(part, 64); err != nil {
			return rollout.Price{}, false
		}
	}

	switch len(dollars) {
	case 2:
		return rollout.Price{Prompt: dollars[0], Completion: dollars[1]}, true
	case 3:
		return rollout.Price{Prompt: dollars[0], Completion: dollars[1], CachedPrompt: &dollars[2]}, true
	default:
		return rollout.Price{}, false
	}
}

func (c Config) validatePrices(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Prices)) {
		price := c.Prices[name]
		p.check(price.Valid(), "prices."+name, "prompt, completion and cached_prompt must be 0 or more")
	}
}
