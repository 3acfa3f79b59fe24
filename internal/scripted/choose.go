package scripted

import "strings"

// plannedReply is the reply to one request, with its pace and faults.
type plannedReply struct {
	script string

	// from 0
	turn   int
	reply  *reply
	pace   Pace
	faults []Fault
}

// choose selects the reply from the request alone. ok is false when no script matches.
func (s *Server) choose(req *request) (sc plannedReply, ok bool) {
	text, answered := req.instruction()

	system := req.system()
	if aside := auxiliaryReply(system, text); aside != nil {
		return plannedReply{script: "aside", reply: aside}, true
	}

	for i := range s.scripts {
		script := &s.scripts[i]
		if !strings.Contains(text, script.Match) || script.Hermes && !strings.Contains(system, "<tools>") {
			continue
		}

		if script.Loop {
			answered %= len(script.Turns)
		}

		if answered >= len(script.Turns) {
			return plannedReply{script: script.Name, turn: answered, reply: newReply(Turn{}, 1)}, true
		}

		sc = plannedReply{
			script.Name, answered, script.replies[answered], script.pace(answered),
			script.Turns[answered].Faults,
		}
		if turn, changed := req.adapt(script.Turns[answered]); changed {
			sc.reply = newReply(turn, sc.pace.TokensPerChunk)
		}

		return sc, true
	}

	return plannedReply{}, false
}

// probeText begins the instruction of a gateway's probes.
const probeText = "Endpoint probe:"

// auxiliaryReply answers calls that are not part of the task: titles and summaries of agents, and probes of a gateway.
func auxiliaryReply(system, text string) *reply {
	switch {
	case strings.HasPrefix(system, "You are a title generator."):
		words := strings.Fields(text)
		return newReply(Turn{Text: strings.Join(words[:min(len(words), 6)], " ")}, 1)
	case strings.HasPrefix(text, probeText+" name"):
		return newReply(Turn{Text: "Blue"}, 1)
	case strings.HasPrefix(text, probeText+" call"):
		return newReply(Turn{ToolCalls: []ToolCall{{Name: "bash", Arguments: map[string]any{"command": "true"}}}}, 1)
	case strings.HasPrefix(system, "You are a context summarization agent."):
		return newReply(Turn{Text: "The work so far went as planned; the task goes on."}, 1)
	}

	return nil
}
