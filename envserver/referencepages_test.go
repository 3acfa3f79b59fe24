package envserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The references of arguments and routes are made of what the server says of itself.
func TestReferencePages(t *testing.T) {
	t.Parallel()

	server := start(t)

	for file, describe := range map[string]func(*testing.T, *rig) string{
		"../docs/reference/arguments.md": referenceOfArguments,
		"../docs/reference/rest.md":      referenceOfRoutes,
		taskSchemaFile:                   schemaOfTasks,
	} {
		page := describe(t, server)

		if os.Getenv("UPDATE") != "" {
			require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
		}

		written, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(written), page, "UPDATE=1 go test ./envserver -run TestReferencePages writes the page")
	}
}

// schema is the part of a JSON schema that the pages show.
type schema struct {
	Type        any
	Description string
	Default     json.RawMessage
	Enum        []any
	Required    []string
	Properties  properties
	Items       *schema
}

// properties are the properties of an object in the order in which the server lists them.
type properties []property

type property struct {
	Name string
	schema
}

func (p *properties) UnmarshalJSON(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return err
	}

	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}

		one := property{Name: fmt.Sprint(name)}
		if err := dec.Decode(&one.schema); err != nil {
			return err
		}

		*p = append(*p, one)
	}

	return nil
}

// toolOf is a tool as the server lists it, with a schema of a kind.
type toolOf[S any] struct {
	Name, Description string
	InputSchema       S
}

func toolsOf[S any](t *testing.T, server *rig) []toolOf[S] {
	t.Helper()

	status, _, body := server.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"tools/list","id":1}`)
	require.Equal(t, http.StatusOK, status)

	var list struct{ Result struct{ Tools []toolOf[S] } }
	require.NoError(t, json.Unmarshal([]byte(body), &list))

	return list.Result.Tools
}

func referenceOfArguments(t *testing.T, server *rig) string {
	t.Helper()

	tools := toolsOf[schema](t, server)

	var page strings.Builder

	page.WriteString(`# Tools and their arguments

This page is generated from the code. The tools are called over MCP, as an action of ` + "`/step`" + `, and over REST,
which takes the same arguments as a JSON body.
`)

	shared := map[string]string{}

	for _, tool := range tools {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n", tool.Name, tool.Description)

		var rows strings.Builder

		repeated := 0

		for _, p := range tool.InputSchema.Properties {
			row := argumentRows("", p, tool.InputSchema.Required)

			if tool.Name != "run_rollout" && shared[p.Name] == row {
				repeated++

				continue
			}

			rows.WriteString(row)

			if tool.Name == "run_rollout" {
				shared[p.Name] = row
			}
		}

		if repeated > 5 {
			page.WriteString("\nIt takes the arguments of `run_rollout`")

			if rows.Len() > 0 {
				page.WriteString(", and these")
			}

			page.WriteString(".\n")
		}

		if rows.Len() > 0 {
			page.WriteString("\n| Argument | Kind | Default | Meaning |\n|---|---|---|---|\n" + rows.String())
		}
	}

	return page.String()
}

// argumentRows returns the row of an argument, and those of its fields.
func argumentRows(prefix string, p property, required []string) string {
	var rows strings.Builder

	name := prefix + p.Name

	fallback := ""
	if len(p.Default) > 0 {
		fallback = "`" + string(p.Default) + "`"
	}

	if slices.Contains(required, p.Name) {
		fallback = "required"
	}

	meaning := p.Description
	if len(p.Enum) > 0 {
		meaning += ". " + choices(p)
	}

	fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, kindOf(p.schema), fallback, cell(meaning))

	for _, inner := range p.Properties {
		rows.WriteString(argumentRows(name+".", inner, p.Required))
	}

	if p.Items != nil {
		for _, inner := range p.Items.Properties {
			rows.WriteString(argumentRows(name+"[].", inner, p.Items.Required))
		}
	}

	return rows.String()
}

// choices names the values of an argument. Which agents there are depends on the configuration of a server.
func choices(p property) string {
	if p.Name == "agent" || p.Name == "harness" {
		return "The server's configuration decides which there are"
	}

	var values []string
	for _, value := range p.Enum {
		values = append(values, fmt.Sprintf("`%v`", value))
	}

	return "One of " + strings.Join(values, ", ")
}

func kindOf(s schema) string {
	kinds, _ := s.Type.([]any)
	if kinds == nil {
		kinds = []any{s.Type}
	}

	for _, kind := range kinds {
		switch {
		case kind == "null":
		case kind == "array" && s.Items != nil && s.Items.Type != nil:
			return "list of " + kindOf(*s.Items)
		case kind == "array":
			return "list"
		case kind != nil:
			return fmt.Sprint(kind)
		}
	}

	return "any"
}

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}

func referenceOfRoutes(t *testing.T, server *rig) string {
	t.Helper()

	status, _, body := server.do("GET", "/openapi.json", "")
	require.Equal(t, http.StatusOK, status)

	type operation struct {
		Tags       []string
		Summary    string
		Parameters []struct {
			Name, In, Description string
			Required              bool
		}
		RequestBody struct {
			Content map[string]struct{ Schema schema }
		}
	}

	var document struct {
		Paths map[string]map[string]operation
	}
	require.NoError(t, json.Unmarshal([]byte(body), &document))

	var page strings.Builder

	page.WriteString(`# REST

This page is generated from the code; ` + "`GET /openapi.json`" + ` has the same with all schemas. A failed request is
answered with a status and ` + "`{\"detail\": …}`" + `.
`)

	byTag := map[string][]string{}

	for path, methods := range document.Paths {
		for method, op := range methods {
			var rows strings.Builder

			fmt.Fprintf(
				&rows,
				"\n### %s %s\n\n%s.\n",
				strings.ToUpper(method),
				path,
				strings.TrimSuffix(op.Summary, "."),
			)

			shown := 0
			row := func(name, in, kind, meaning string) {
				if shown++; shown == 1 {
					rows.WriteString("\n| Parameter | In | Kind | Meaning |\n|---|---|---|---|\n")
				}

				fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, in, kind, cell(meaning))
			}

			for _, p := range op.Parameters {
				if p.In != "path" {
					row(p.Name, p.In, "", p.Description)
				}
			}

			for _, p := range op.RequestBody.Content["application/json"].Schema.Properties {
				row(p.Name, "body", kindOf(p.schema), p.Description)
			}

			tag := "Others"
			if len(op.Tags) > 0 {
				tag = op.Tags[0]
			}

			byTag[tag] = append(byTag[tag], path+" "+method+"\x00"+rows.String())
		}
	}

	for _, tag := range slices.Sorted(maps.Keys(byTag)) {
		fmt.Fprintf(&page, "\n## %s\n", tag)

		slices.Sort(byTag[tag])

		for _, rows := range byTag[tag] {
			_, text, _ := strings.Cut(rows, "\x00")
			page.WriteString(text)
		}
	}

	return page.String()
}
