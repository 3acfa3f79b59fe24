package grading

// ParseReward is parseReward, for fuzzing.
func ParseReward(text string) (float64, string) { return parseReward(text) }
