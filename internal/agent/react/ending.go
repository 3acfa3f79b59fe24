package react

import (
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/continuation"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// endingOf reads the end of a reply with these sampled ids.
func endingOf(r gatewayapi.Reply, sampled []int32) continuation.End {
	var in struct {
		Choices []struct {
			Text   string `json:"text"`
			Finish string `json:"finish_reason"`
			// vLLM's and SGLang's: null or the id of the token, a text for a stop string
			StopReason  json.RawMessage `json:"stop_reason"`
			MatchedStop json.RawMessage `json:"matched_stop"`
		} `json:"choices"`
	}
	if json.Unmarshal(r.Body, &in) != nil || len(in.Choices) == 0 || len(sampled) == 0 {
		return continuation.End{}
	}

	c, last := in.Choices[0], sampled[len(sampled)-1]
	opened, closed := strings.LastIndex(c.Text, "<think>"), strings.LastIndex(c.Text, "</think>")

	return continuation.End{
		Last:    last,
		Stopped: c.Finish == "stop" && samples(c.StopReason, last) && samples(c.MatchedStop, last),
		Opens:   opened > closed,
		Closes:  closed >= 0,
	}
}

// samples reports whether the token can be that of an engine's stop reason. It is not for a text, and for another
// token, which the engine left out of its list.
func samples(reason json.RawMessage, token int32) bool {
	if len(reason) == 0 || string(reason) == "null" {
		return true
	}

	var id int32

	return json.Unmarshal(reason, &id) == nil && id == token
}
