package envserver

// object is the schema of an object with the given members.
func objectOf(title string, required []string, properties doc) doc {
	o := doc{"type": "object", "title": title, "properties": properties}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

// shared are the component schemas of both modes.
func shared() doc {
	return doc{
		"HealthStatus":   doc{"type": "string", "title": "HealthStatus", "enum": []string{"healthy", "unhealthy", "degraded"}},
		"HealthResponse": objectOf("HealthResponse", []string{"status"}, doc{"status": ref("HealthStatus")}),
		"EnvironmentMetadata": objectOf("EnvironmentMetadata", []string{"name", "description"}, doc{
			"name":              field("string", "name of the environment"),
			"description":       field("string", "what it does"),
			"readme_content":    orNull("its README", "string"),
			"version":           orNull("its version", "string"),
			"author":            orNull("its author", "string"),
			"documentation_url": orNull("where it is documented", "string"),
		}),
		"SchemaResponse": objectOf("SchemaResponse", []string{"action", "observation", "state"}, doc{
			"action":      free("schema of actions"),
			"observation": free("schema of observations"),
			"state":       free("schema of the state"),
		}),
	}
}

// simulated are the component schemas of the routes that only the simulation mode has.
func simulated() doc {
	answer := doc{
		"observation": free("what was observed"),
		"reward":      orNull("the reward, where there is one", "number"),
		"done":        doc{"type": "boolean", "default": false, "description": "whether the episode has ended"},
	}
	reset := objectOf("ResetRequest", nil, doc{
		"seed":       doc{"anyOf": []doc{{"type": "integer", "minimum": 0}, {"type": "null"}}, "default": nil, "description": "taken and not used"},
		"episode_id": doc{"anyOf": []doc{{"type": "string", "maxLength": maxID}, {"type": "null"}}, "default": nil, "description": "your name for the episode"},
	})
	step := objectOf("StepRequest", []string{"action"}, doc{
		"action":     free("the action; see /schema"),
		"timeout_s":  doc{"anyOf": []doc{{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}}, "default": nil, "description": "bound of the answer, in seconds"},
		"request_id": doc{"anyOf": []doc{{"type": "string", "maxLength": maxID}, {"type": "null"}}, "default": nil, "description": "your name for the request"},
	})
	reset["additionalProperties"], step["additionalProperties"] = true, true
	return doc{
		"ResetRequest": reset, "StepRequest": step,
		"ResetResponse": objectOf("ResetResponse", []string{"observation"}, answer),
		"StepResponse":  objectOf("StepResponse", []string{"observation"}, answer),
		"State":         stateSchema(),
		"HTTPValidationError": objectOf("HTTPValidationError", nil, doc{
			"detail": doc{"type": "array", "items": ref("ValidationError")},
		}),
		"ValidationError": objectOf("ValidationError", []string{"loc", "msg", "type"}, doc{
			"loc":  doc{"type": "array", "items": doc{"anyOf": []doc{{"type": "string"}, {"type": "integer"}}}},
			"msg":  field("string", "what is wrong"),
			"type": field("string", "kind of the error"),
		}),
	}
}
