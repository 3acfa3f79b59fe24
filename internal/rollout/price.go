package rollout

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	Prompt     float64 `json:"prompt" yaml:"prompt"`
	Completion float64 `json:"completion" yaml:"completion"`
}

// Of is the cost of what was used, in US dollars. What an endpoint charges less for, such as a cached prompt, counts in full.
func (p *Price) Of(u Usage) float64 {
	if p == nil {
		return 0
	}
	return (p.Prompt*float64(u.PromptTokens) + p.Completion*float64(u.CompletionTokens)) / 1e6
}
