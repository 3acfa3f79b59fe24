package rollout

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	Prompt     float64 `json:"prompt" yaml:"prompt" jsonschema:"US dollars for a million prompt tokens"`
	Completion float64 `json:"completion" yaml:"completion" jsonschema:"US dollars for a million completion tokens"`
	// CachedPrompt is for prompt tokens that the endpoint had in its cache; nil: they cost what the others do.
	CachedPrompt *float64 `json:"cached_prompt,omitempty" yaml:"cached_prompt" jsonschema:"US dollars for a million prompt tokens from the endpoint's cache; default: as prompt"`
}

// Of is the cost of what was used, in US dollars. Writing to a cache, for which some charge more, costs what the prompt does.
func (p *Price) Of(u Usage) float64 {
	if p == nil {
		return 0
	}
	cached, saved := min(u.CachedPromptTokens, u.PromptTokens), 0.0
	if p.CachedPrompt != nil {
		saved = (p.Prompt - *p.CachedPrompt) * float64(cached)
	}
	return (p.Prompt*float64(u.PromptTokens) + p.Completion*float64(u.CompletionTokens) - saved) / 1e6
}

// Valid says whether every part is 0 or more.
func (p *Price) Valid() bool {
	return p.Prompt >= 0 && p.Completion >= 0 && (p.CachedPrompt == nil || *p.CachedPrompt >= 0)
}
