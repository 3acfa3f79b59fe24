package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/gcerrors"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// checkTimeout bounds a check of the store.
const checkTimeout = 15 * time.Second

// Check writes, reads and deletes a small blob. The error says what is wrong: fault.Unauthorized for
// credentials that are missing or refused and for a folder that is another user's, fault.Invalid for a
// bucket that does not exist, fault.Unavailable for a store that does not answer.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()

	key := path.Join("checks", uuid.NewString())

	_, err := s.PutBytes(ctx, key, []byte("ok"))
	if err == nil {
		_, err = s.Bytes(ctx, key, 2)
	}

	if err == nil {
		err = s.Delete(ctx, key)
	}

	return explain(err)
}

func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fault.Wrap(fault.Unauthorized, err, "user %d may not read and write the store's folder", os.Geteuid())
	case codeOf(err) == gcerrors.PermissionDenied:
		return fault.Wrap(fault.Unauthorized, err, "the store refuses the credentials")
	case missingBucket(err):
		return fault.Wrap(fault.Invalid, err, "the bucket does not exist")
	}

	for _, c := range credentials {
		if strings.Contains(err.Error(), c.says) {
			return fault.Wrap(fault.Unauthorized, err, "no usable credentials for the store; it needs %s", c.needs)
		}
	}

	return fault.Wrap(fault.Unavailable, err, "the store does not answer as it should")
}

const azureNeeds = "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or the machine's identity"

// credentials are what the libraries say without any; they have no types for it.
var credentials = []struct{ says, needs string }{
	{"get credentials", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the machine's role"},
	{
		"private key should be a PEM",
		"GOOGLE_APPLICATION_CREDENTIALS with the path of a key file, or the machine's role",
	},
	{"DefaultAzureCredential", azureNeeds},
	{"not permitted for non TLS protected", azureNeeds},
}
