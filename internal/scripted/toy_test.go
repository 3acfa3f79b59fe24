package scripted_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/scripted"
)

// The server refuses every prompt that a wrong splice produces.
func TestWrongSplicesAreRefused(t *testing.T) {
	t.Parallel()

	scripts, err := scripted.Load(strings.NewReader(`[{name: x, turns: [{text: one answer}, {text: two}]}]`))
	require.NoError(t, err)

	srv := scripted.New(scripted.Options{Scripts: scripts})
	post := func(path, body string, into any) int {
		rec := httptest.NewRecorder()
		srv.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, bytes.NewReader([]byte(body))))

		if rec.Code == http.StatusOK {
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), into))
		}

		return rec.Code
	}
	tokenize := func(messages string) []int32 {
		var out struct{ Tokens []int32 }
		require.Equal(t, http.StatusOK, post("/tokenize", `{"messages":[`+messages+`]}`, &out))

		return out.Tokens
	}

	type reply struct {
		Choices []struct {
			Text     string
			TokenIDs []int32 `json:"token_ids"`
			Finish   string  `json:"finish_reason"`
		}
	}

	sample := func(prompt []int32) (int, reply) {
		ids, err := json.Marshal(prompt)
		require.NoError(t, err)

		var out reply

		return post(
			"/v1/completions",
			fmt.Sprintf(`{"prompt":%s,"max_tokens":100,"return_token_ids":true}`, ids),
			&out,
		), out
	}

	const user, answer, next = `{"role":"user","content":"go"}`, `{"role":"assistant","content":"one answer"}`, `{"role":"tool","content":"\n on"}`

	prompt := tokenize(user)
	status, first := sample(prompt)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "one answer", first.Choices[0].Text)

	var ofText reply
	require.Equal(
		t,
		http.StatusOK,
		post("/v1/completions", `{"prompt":"go","max_tokens":100,"return_token_ids":true}`, &ofText),
	)
	require.Equal(t, first, ofText, "a text is the message of a user")

	whole := tokenize(strings.Join([]string{user, answer, next}, ","))
	dashed := tokenize(`{"role":"user","content":"-\n\n-"}`)
	dash := slices.Index(dashed, 16+'-')
	// the empty line between messages, as a separate token
	between := dashed[dash+1 : dash+2]
	sampled := slices.Concat(prompt, first.Choices[0].TokenIDs)
	require.NotEqual(t, whole[:len(sampled)], sampled, "the reply is not sampled as the tokenizer would have it")
	end := slices.Index(whole[len(prompt):], first.Choices[0].TokenIDs[len(first.Choices[0].TokenIDs)-1]) + len(prompt)
	more := whole[end+1:]
	status, second := sample(slices.Concat(sampled, more))
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "two", second.Choices[0].Text)

	for name, wrong := range map[string][]int32{
		"the end of the turn twice":        slices.Concat(sampled, whole[end:]),
		"a message tokenised on its own":   slices.Concat(sampled, between, tokenize(next)),
		"no beginning of the reply":        slices.Concat(sampled, more[:len(more)-1]),
		"an id that no token has":          slices.Concat(sampled, []int32{99999}, more),
		"nothing between turns":            slices.Concat(sampled, tokenize(next)),
		"the beginning of the reply twice": slices.Concat(sampled, more, more[len(more)-1:]),
	} {
		status, _ := sample(wrong)
		require.Equal(t, http.StatusBadRequest, status, name)
	}
}
