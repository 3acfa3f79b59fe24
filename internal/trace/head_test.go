package trace

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A head is written as encoding/json writes it, with any of its members. A member missing here would be
// lost without an error.
func TestHeadIsWrittenAsByReflection(t *testing.T) {
	t.Parallel()

	full := &storedHead{}
	fillIn(t, reflect.ValueOf(full).Elem())
	require.Equal(t, byReflection(t, full), asWritten(t, full))
	require.Equal(t, byReflection(t, &storedHead{}), asWritten(t, &storedHead{}))

	fields := reflect.VisibleFields(reflect.TypeFor[storedHead]())
	for _, f := range fields {
		if f.Anonymous {
			continue
		}

		one := &storedHead{}
		fillIn(t, reflect.ValueOf(one).Elem().FieldByIndex(f.Index))
		require.Equal(t, byReflection(t, one), asWritten(t, one), f.Name)
	}
}

// A value without a JSON form is refused, and so is invalid JSON in a raw member.
func TestHeadWithoutJSON(t *testing.T) {
	t.Parallel()

	endless, broken := &storedHead{}, &storedHead{}
	endless.Usage.CostUSD = math.Inf(1)

	broken.UpstreamError = json.RawMessage("{")
	for _, h := range []*storedHead{endless, broken} {
		_, err := h.append(nil)
		require.Error(t, err)
	}
}

func TestNoteIsWrittenAsByReflection(t *testing.T) {
	t.Parallel()

	want, err := json.Marshal(note{"a\"b", 7})
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(note{"a\"b", 7}.append(nil)))
}

func asWritten(t *testing.T, h *storedHead) map[string]any {
	t.Helper()

	b, err := h.append(nil)
	require.NoError(t, err)

	var back map[string]any
	require.NoError(t, json.Unmarshal(b, &back), "%s", b)

	return back
}

func byReflection(t *testing.T, h *storedHead) map[string]any {
	t.Helper()

	b, err := json.Marshal(h)
	require.NoError(t, err)

	var back map[string]any
	require.NoError(t, json.Unmarshal(b, &back))

	return back
}

// fillIn sets a value and everything inside it to non-zero values.
func fillIn(t *testing.T, v reflect.Value) {
	t.Helper()

	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a":"<b>"}`))
		return
	}

	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				fillIn(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))

		for i := range v.Len() {
			fillIn(t, v.Index(i))
		}
	case reflect.String:
		v.SetString("é \"quoted\"\n")
	case reflect.Int, reflect.Int64:
		v.SetInt(-7)
	case reflect.Float64:
		v.SetFloat(1.5e-9)
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}
