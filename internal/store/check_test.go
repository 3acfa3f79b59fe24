package store_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/store/azuretest"
	"github.com/rolloutd/rolloutd/internal/store/gcstest"
	"github.com/rolloutd/rolloutd/internal/store/s3test"
)

// The error at the start names the wrong setting and does not contain the secret.
func TestCheckOfS3SaysWhatIsWrong(t *testing.T) {
	t.Parallel()

	server := s3test.Start(t)
	for _, c := range []struct {
		bucket, profile string
		kind            fault.Kind
		says            string
	}{
		{s3test.Bucket, "wrong", fault.Unauthorized, "refuses the credentials"},
		{s3test.Bucket, "empty", fault.Unauthorized, "AWS_ACCESS_KEY_ID"},
		{"another-bucket", "right", fault.Invalid, "bucket does not exist"},
	} {
		err := open(t, server.URL(c.bucket)+"&profile="+c.profile).Check(t.Context())
		require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), s3test.SecretKey)
	}

	s := open(t, server.URL(s3test.Bucket)+"&profile=right")
	server.Lose()

	err := s.Check(t.Context())
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	_, err = store.Open(t.Context(), "s3://"+s3test.AccessKey+":"+s3test.SecretKey+"@bucket")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.False(t, strings.Contains(err.Error(), s3test.SecretKey), "the secret is not shown")
}

// A folder of root is refused as the store of another user: rollouts would wait for results that the user cannot read.
func TestCheckOfAFolderOfAnotherUser(t *testing.T) {
	t.Parallel()
	// not t.TempDir, which other users cannot enter
	folder, err := os.MkdirTemp("", "store")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o755))
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")

	cmd.Env = []string{"HOME=/", checkURL + "=" + folder}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	} else {
		require.NoError(t, os.Chmod(folder, 0o555))
	}

	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "kind="+string(fault.Unauthorized)+"\n")
	require.Contains(t, string(out), "may not read and write the store's folder")
	require.NoError(t, open(t, t.TempDir()).Check(t.Context()))
}

// checkURL makes the test binary a process that only checks a store: the drivers of GCS and Azure read
// their variables once in a process.
const checkURL = "ROLLOUTD_STORE_TEST_CHECK"

// checkAlone is the main function of that process.
func checkAlone(url string) (status int) {
	s, err := store.Open(context.Background(), url)
	if err == nil {
		err = s.Check(context.Background())
	}

	fmt.Printf("\nkind=%s\n%v\n", fault.KindOf(err), err)

	return 0
}

// requireRefused checks a store in a process with the given variables, and requires the error kind and text.
func requireRefused(t *testing.T, kind fault.Kind, says, url string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append([]string{"HOME=" + t.TempDir(), checkURL + "=" + url}, env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "kind="+string(kind)+"\n", url)
	require.Contains(t, string(out), says)

	for _, secret := range []string{"canary", azuretest.Key(""), azuretest.Key("x")} {
		require.NotContains(t, string(out), secret, "the secret is not shown")
	}
}

func TestCheckOfGCSSaysWhatIsWrong(t *testing.T) {
	t.Parallel()

	const url = "gs://rollouts"
	requireRefused(
		t,
		fault.Unauthorized,
		"GOOGLE_APPLICATION_CREDENTIALS",
		url,
		"GOOGLE_APPLICATION_CREDENTIALS=/no/such/file",
	)

	// The token server and the service return Google's errors for a deleted key and for an account without
	// rights to the bucket.
	tokens := refuses(
		t,
		http.StatusBadRequest,
		`{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}`,
	)
	requireRefused(
		t,
		fault.Unauthorized,
		"refuses the credentials",
		url,
		"GOOGLE_APPLICATION_CREDENTIALS="+keyFile(t, tokens.URL),
	)

	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		service := refuses(
			t,
			status,
			fmt.Sprintf(
				`{"error": {"code": %d, "message": "a@p.iam.gserviceaccount.com does not have storage.objects.create access"}}`,
				status,
			),
		)
		requireRefused(
			t,
			fault.Unauthorized,
			"refuses the credentials",
			url,
			"STORAGE_EMULATOR_HOST="+strings.TrimPrefix(service.URL, "http://"),
		)
	}

	if os.Getenv(allClouds) != "" {
		requireRefused(t, fault.Invalid, "bucket does not exist", "gs://another-bucket", gcstest.Start(t).Env()...)
	}
}

// refuses starts a server that answers each request with the same status and body.
func refuses(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()

	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)

	return s
}

// keyFile writes a key of a service account and returns its path.
func keyFile(t *testing.T, tokens string) string {
	t.Helper()

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)

	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	data, err := json.Marshal(map[string]string{
		"type":         "service_account",
		"project_id":   "p",
		"client_email": "a@p.iam.gserviceaccount.com",
		"private_key":  string(text),
		"token_uri":    tokens,
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "key.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))

	return path
}

// A service that refuses the credentials later does not report that a blob is missing.
func TestRefusedByGCS(t *testing.T) {
	t.Parallel()
	service := refuses(t, http.StatusForbidden, `{"error": {"code": 403, "message": "denied"}}`)
	requireTemporary(t, open(t, "gs://rollouts#"+strings.TrimPrefix(service.URL, "http://")))
}

func TestCheckOfAzureSaysWhatIsWrong(t *testing.T) {
	t.Parallel()

	const account = "AZURE_STORAGE_ACCOUNT=" + azuretest.Account
	requireRefused(t, fault.Unauthorized, "AZURE_STORAGE_KEY", "azblob://rollouts?protocol=http", account)
	requireRefused(t, fault.Invalid, "AZURE_STORAGE_ACCOUNT", "azblob://rollouts")

	if os.Getenv(allClouds) == "" {
		return
	}

	server := azuretest.Start(t)
	requireRefused(
		t,
		fault.Unauthorized,
		"refuses the credentials",
		server.URL(azuretest.Container),
		account,
		"AZURE_STORAGE_KEY="+azuretest.Key("x"),
	)
	requireRefused(
		t,
		fault.Unauthorized,
		"refuses the credentials",
		server.URL(azuretest.Container),
		account,
		"AZURE_STORAGE_SAS_TOKEN=sv=2021-01-01&sig=canary",
	)
	requireRefused(t, fault.Invalid, "bucket does not exist", server.URL("another-container"), azuretest.Env()...)
}

// An unknown host is a temporary error, never an answer about a blob.
func TestUnknownHost(t *testing.T) {
	t.Parallel()
	s := open(t, "azblob://rollouts?domain=blob.invalid&protocol=http")
	_, err := s.Exists(t.Context(), "a/301")
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
}
