package config_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

const referencePage = "../../docs/reference/configuration.md"

// The reference of the settings is made of the fields of Config, their comments, their defaults and their variables.
func TestReferenceOfSettings(t *testing.T) {
	t.Parallel()

	page := referenceOfSettings(t)

	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.MkdirAll(filepath.Dir(referencePage), 0o755))
		require.NoError(t, os.WriteFile(referencePage, []byte(page), 0o644))
	}

	written, err := os.ReadFile(referencePage)
	require.NoError(t, err)
	require.Equal(
		t,
		string(written),
		page,
		"UPDATE=1 go test ./internal/config -run TestReferenceOfSettings writes the page",
	)
}

func referenceOfSettings(t *testing.T) string {
	t.Helper()

	r := reference{t: t, comments: map[string]map[string]string{}, variables: map[string][]string{}}
	for _, v := range config.Variables() {
		r.variables[v.Path] = append(r.variables[v.Path], "`"+v.Name+"`")
	}

	r.page.WriteString(`# Settings

This page is generated from the code. A setting is written in the YAML file, or in its environment variable, which wins.
An empty default is an empty text, an empty list, or 0. [Configuration](../configuration.md) explains how settings are
read, and shows a file.
`)

	root := reflect.ValueOf(config.Defaults())

	r.page.WriteString("\n## Single settings\n\n" + head)

	for i := range root.NumField() {
		if field := root.Type().Field(i); !section(field.Type) {
			r.setting(root.Type(), field, name(field), root.Field(i))
		}
	}

	for i := range root.NumField() {
		field := root.Type().Field(i)
		if !section(field.Type) || name(field) == "" {
			continue
		}

		fmt.Fprintf(&r.page, "\n## %s\n\n", name(field))

		if text := r.comment(root.Type(), field.Name); text != "" {
			r.page.WriteString(text + "\n\n")
		}

		r.page.WriteString(head)

		path, value := name(field), root.Field(i)
		switch field.Type.Kind() {
		case reflect.Map:
			path, value = path+".NAME", reflect.Zero(field.Type.Elem())
		case reflect.Slice:
			path, value = path+"[]", reflect.Zero(field.Type.Elem())
		}

		r.fields(path, value)
	}

	r.page.WriteString("\n## Variables that no file can set\n\n")

	for _, v := range config.Variables() {
		if v.Path == "" {
			fmt.Fprintf(&r.page, "- `%s`\n", v.Name)
		}
	}

	return r.page.String()
}

const head = "| Setting | Kind | Default | Variable | Meaning |\n|---|---|---|---|---|\n"

type reference struct {
	t *testing.T

	page strings.Builder

	// comments has the comments of fields, by package and type, then by field.
	comments map[string]map[string]string

	// variables has the environment variables by the path of their setting.
	variables map[string][]string
}

// fields writes a row for each setting of a struct and of the structs in it.
func (r *reference) fields(path string, value reflect.Value) {
	for value.Kind() == reflect.Pointer {
		value = reflect.Zero(value.Type().Elem())
	}

	for i := range value.NumField() {
		field := value.Type().Field(i)
		inner, fieldPath := field.Type, path+"."+name(field)

		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}

		switch {
		case strings.Contains(field.Tag.Get("yaml"), "inline"):
			r.fields(path, value.Field(i))
		case name(field) == "":
			continue
		case section(inner) && inner.Kind() == reflect.Struct:
			r.fields(fieldPath, reflect.Indirect(valueOrZero(value.Field(i))))
		case section(inner) && inner.Kind() == reflect.Map:
			r.setting(value.Type(), field, fieldPath, value.Field(i))
			r.fields(fieldPath+".NAME", reflect.Zero(inner.Elem()))
		case section(inner):
			r.setting(value.Type(), field, fieldPath, value.Field(i))
			r.fields(fieldPath+"[]", reflect.Zero(inner.Elem()))
		default:
			r.setting(value.Type(), field, fieldPath, value.Field(i))
		}
	}
}

func valueOrZero(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}

	return v
}

func (r *reference) setting(in reflect.Type, field reflect.StructField, path string, value reflect.Value) {
	if name(field) == "" {
		return
	}

	fmt.Fprintf(&r.page, "| `%s` | %s | %s | %s | %s |\n", path, kind(field.Type), defaultOf(value),
		strings.Join(r.variables[path], ", "), strings.ReplaceAll(r.comment(in, field.Name), "|", `\|`))
}

// comment returns the comment of a field in one line.
func (r *reference) comment(in reflect.Type, field string) string {
	key := in.PkgPath() + "." + in.Name()
	if r.comments[key] == nil {
		r.readComments(in.PkgPath())
	}

	return r.comments[key][field]
}

func (r *reference) readComments(pkg string) {
	dir := filepath.Join("../..", strings.TrimPrefix(pkg, "github.com/rolloutd/rolloutd/"))
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(r.t, err)

	for _, file := range names {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(r.t, err)

		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}

			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}

			all := map[string]string{}

			for _, f := range fields.Fields.List {
				text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
				for _, id := range f.Names {
					all[id.Name] = sentence(id.Name, text)
				}
			}

			r.comments[pkg+"."+spec.Name.Name] = all

			return true
		})
	}
}

// sentence makes the comment of a field readable for one who sees the setting and not the field.
func sentence(field, text string) string {
	for _, verb := range []string{" is ", " are ", " has "} {
		if rest, ok := strings.CutPrefix(text, field+verb); ok {
			text = rest
		}
	}

	text = strings.TrimPrefix(text, field+" ")
	if text == "" {
		return ""
	}

	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".")
}

// section reports whether a setting consists of settings.
func section(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return t != reflect.TypeFor[time.Time]() && t.PkgPath() != "" && hasNames(t)
	case reflect.Map, reflect.Slice:
		return section(t.Elem())
	case reflect.Pointer:
		return section(t.Elem())
	default:
		return false
	}
}

func hasNames(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") != "" {
			return true
		}
	}

	return false
}

// name returns the name of a field in YAML, or "" if files do not set it.
func name(f reflect.StructField) string {
	n, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if n == "-" {
		return ""
	}

	return n
}

func kind(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Pointer:
		return kind(t.Elem())
	case t.Kind() == reflect.Slice:
		return "list of " + kind(t.Elem())
	case t.Kind() == reflect.Map:
		return "map of " + kind(t.Elem())
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "number"
	case strings.HasPrefix(t.Kind().String(), "int"), strings.HasPrefix(t.Kind().String(), "uint"):
		return "whole number"
	case t.Kind() == reflect.Struct:
		return "section"
	default:
		return "value"
	}
}

func defaultOf(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}

		v = v.Elem()
	}

	switch {
	case v.IsZero(), v.Kind() == reflect.Map, v.Kind() == reflect.Slice && v.Len() == 0, v.Kind() == reflect.Struct:
		return ""
	case v.Kind() == reflect.Slice:
		return "`" + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(v.Interface()), "[]")), "`, `") + "`"
	default:
		return fmt.Sprintf("`%v`", v.Interface())
	}
}
