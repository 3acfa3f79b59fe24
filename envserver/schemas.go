package envserver

// doc is a JSON object written by hand.
type doc = map[string]any

// field is the schema of one member: its type and what it is for.
func field(kind, description string) doc {
	return doc{"type": kind, "description": description}
}

// orNull is the schema of a member that may be null, and is when nothing is said.
func orNull(description string, kinds ...string) doc {
	any := []doc{}
	for _, k := range append(kinds, "null") {
		any = append(any, doc{"type": k})
	}
	return doc{"anyOf": any, "default": nil, "description": description}
}

func free(description string) doc {
	return doc{"type": "object", "additionalProperties": true, "description": description}
}

// actionSchema describes the tool call; list_tools is understood, too, but the reference does not describe it.
func actionSchema() doc {
	return doc{
		"type": "object", "title": "CallToolAction", "additionalProperties": false, "required": []string{"tool_name"},
		"properties": doc{
			"metadata":  free("anything; timeout_s in it bounds the answer, in seconds"),
			"type":      doc{"type": "string", "const": "call_tool", "default": "call_tool"},
			"tool_name": field("string", "which tool to call"),
			"arguments": free("the tool's arguments"),
		},
	}
}

func observationSchema() doc {
	return doc{
		"type": "object", "title": "CallToolObservation", "additionalProperties": false, "required": []string{"tool_name"},
		"properties": doc{
			"done":      doc{"type": "boolean", "default": false, "description": "whether the episode has ended"},
			"reward":    orNull("reward of the step", "boolean", "integer", "number"),
			"metadata":  free("never sent"),
			"tool_name": field("string", "the tool that was called"),
			"result":    doc{"default": nil, "description": "what the tool returned; null when it failed"},
			"error":     doc{"anyOf": []doc{{"$ref": "#/$defs/ToolError"}, {"type": "null"}}, "default": nil, "description": "why the tool failed"},
		},
		"$defs": doc{
			"ToolError": doc{
				"type": "object", "title": "ToolError", "additionalProperties": false, "required": []string{"error_type", "message"},
				"properties": doc{
					"error_type": doc{"$ref": "#/$defs/ToolErrorType"},
					"message":    field("string", "what went wrong, for people"),
				},
			},
			"ToolErrorType": doc{"type": "string", "title": "ToolErrorType",
				"enum": []string{"execution_error", "invalid_args", "transport_error", "tool_not_found", "timeout"}},
		},
	}
}

func stateSchema() doc {
	return doc{
		"type": "object", "title": "State", "additionalProperties": true,
		"properties": doc{
			"episode_id":         orNull("the episode since the last reset", "string"),
			"step_count":         doc{"type": "integer", "minimum": 0, "default": 0, "description": "steps since the last reset"},
			"rollouts_completed": doc{"type": "integer", "minimum": 0, "default": 0, "description": "results delivered since the last reset"},
			"last_reward":        orNull("reward of the last result", "number"),
			"last_task_id":       orNull("task of the last result", "string"),
			"last_sandbox_id":    orNull("sandbox of the last result", "string"),
			"rollouts":           doc{"type": "array", "items": doc{"type": "string"}, "description": "ids of the rollouts started since the last reset; absent where there are none"},
		},
	}
}
