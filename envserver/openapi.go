package envserver

import "net/http"

// openAPI describes the HTTP routes; WebSockets have no place in it.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	paths := map[string]doc{}
	for _, rt := range s.routes() {
		if rt.id == "" {
			continue
		}
		if paths[rt.path] == nil {
			paths[rt.path] = doc{}
		}
		paths[rt.path][methodKey(rt.method)] = operation(rt)
	}
	components := shared()
	if s.o.Mode == Simulation {
		for name, schema := range simulated() {
			components[name] = schema
		}
	}
	writeJSON(w, http.StatusOK, doc{
		"openapi":    "3.1.0",
		"info":       doc{"title": "OpenEnv Environment HTTP API", "version": "1.0.0", "description": s.o.Description},
		"paths":      paths,
		"components": doc{"schemas": components},
	})
}

func methodKey(method string) string {
	if method == http.MethodPost {
		return "post"
	}
	return "get"
}

func operation(rt route) doc {
	ok := doc{"description": "Successful Response", "content": content(responseOf(rt.path))}
	if media := mediaOf(rt.path); media != "" {
		ok["content"] = doc{media: doc{"schema": doc{"type": "string"}}}
	}
	responses := doc{"200": ok}
	op := doc{"operationId": rt.id, "tags": []string{rt.tag}, "summary": rt.summary, "responses": responses}
	if request := requestOf(rt.path); request != "" {
		op["requestBody"] = doc{"content": content(request), "required": rt.path == "/step"}
		responses["422"] = doc{"description": "Validation Error", "content": content("HTTPValidationError")}
	}
	if params := parametersOf(rt); len(params) > 0 {
		op["parameters"] = params
	}
	return op
}

func requestOf(path string) string {
	switch path {
	case "/reset":
		return "ResetRequest"
	case "/step":
		return "StepRequest"
	default:
		return ""
	}
}

// responseOf names the schema of a route's answer; "" is any object.
func responseOf(path string) string {
	switch path {
	case "/health":
		return "HealthResponse"
	case "/metadata":
		return "EnvironmentMetadata"
	case "/schema":
		return "SchemaResponse"
	case "/reset":
		return "ResetResponse"
	case "/step":
		return "StepResponse"
	case "/state":
		return "State"
	default:
		return ""
	}
}

func content(name string) doc {
	schema := doc{"type": "object", "additionalProperties": true}
	if name != "" {
		schema = ref(name)
	}
	return doc{"application/json": doc{"schema": schema}}
}

func ref(name string) doc { return doc{"$ref": "#/components/schemas/" + name} }
