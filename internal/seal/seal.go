// Package seal has the deployment's encryption key and what is derived from it: sealed strings (API keys in
// workflow histories and journals), payload encryption, and the shared secrets between roles.
//
// Every role of a deployment has the same key: a file created in the data folder at first start, or
// ROLLOUTD_ENCRYPTION_KEY.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rolloutd/rolloutd/internal/durable"
)

// keySize is the length of a key in bytes.
const keySize = 32

// sealedPrefix marks a sealed string, so that a plain key in its place is refused.
const sealedPrefix = "sealed.v1."

// Key is the deployment's secret. It prints as "[key]".
type Key struct{ b [keySize]byte }

// GoString hides the key from %#v.
func (Key) GoString() string { return "[key]" }

func (Key) String() string { return "[key]" }

// ParseKey reads a key written as 64 hex digits or as base64 of 32 bytes.
func ParseKey(s string) (Key, error) {
	s = strings.TrimSpace(s)

	b, err := hex.DecodeString(s)
	if err != nil || len(b) != keySize {
		b, err = base64.StdEncoding.DecodeString(s)
	}

	if err != nil || len(b) != keySize {
		return Key{}, errors.New("encryption key: must be 64 hex digits or base64 of 32 bytes")
	}

	var k Key
	copy(k.b[:], b)

	return k, nil
}

// Load reads the key file; os.ErrNotExist when there is none.
func Load(path string) (Key, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Key{}, fmt.Errorf("read key file: %w", err)
	}

	k, err := ParseKey(string(raw))
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", path, err)
	}

	return k, nil
}

// LoadOrCreate reads the key file, and creates it (mode 0600) if it does not exist.
func LoadOrCreate(path string) (Key, error) {
	k, err := Load(path)
	if errors.Is(err, os.ErrNotExist) {
		return create(path)
	}

	return k, err
}

// create writes a new key to a temporary file and links it into place, so that two roles that start at once
// read the same key. The key is durable before anything is sealed with it.
func create(path string) (Key, error) {
	var k Key
	if _, err := rand.Read(k.b[:]); err != nil {
		return Key{}, fmt.Errorf("create key: %w", err)
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Key{}, fmt.Errorf("create key folder: %w", err)
	}

	tmp, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return Key{}, fmt.Errorf("create key file: %w", err)
	}
	defer os.Remove(tmp.Name())

	if _, err := tmp.WriteString(hex.EncodeToString(k.b[:]) + "\n"); err != nil {
		return Key{}, fmt.Errorf("write key file: %w", err)
	}

	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return Key{}, fmt.Errorf("write key file: %w", err)
	}

	if err := os.Link(tmp.Name(), path); errors.Is(err, os.ErrExist) {
		return LoadOrCreate(path)
	} else if err != nil {
		return Key{}, fmt.Errorf("place key file: %w", err)
	}

	if err := durable.SyncFolder(filepath.Dir(path)); err != nil {
		return Key{}, fmt.Errorf("place key file: %w", err)
	}

	return k, nil
}

// ID identifies the key without revealing it. It is stored beside encrypted data.
func (k Key) ID() string { return k.Token("key id")[:16] }

// Token derives a shared secret for one purpose, as hex. Roles that hold the key can prove it to each other with it.
func (k Key) Token(purpose string) string { return hex.EncodeToString(k.derive("token: " + purpose)) }

func (k Key) derive(info string) []byte {
	out, err := hkdf.Key(sha256.New, k.b[:], nil, info, keySize)
	if err != nil {
		// only for lengths above HKDF's maximum
		panic("seal: " + err.Error())
	}

	return out
}

// Box encrypts for one purpose; other purposes cannot decrypt the result.
type Box struct {
	aead    cipher.AEAD
	purpose []byte
}

// Box returns the box of a purpose.
func (k Key) Box(purpose string) Box {
	block, err := aes.NewCipher(k.derive("box: " + purpose))
	if err != nil {
		// the key length is fixed
		panic("seal: " + err.Error())
	}

	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("seal: " + err.Error())
	}

	return Box{aead: aead, purpose: []byte(purpose)}
}

// Seal encrypts plain (AES-256-GCM, random nonce in front).
func (b Box) Seal(plain []byte) []byte {
	//nolint:gosec // G407: the AEAD draws its own nonce
	return b.aead.Seal(nil, nil, plain, b.purpose)
}

// Open decrypts the result of Seal.
func (b Box) Open(sealed []byte) ([]byte, error) {
	plain, err := b.aead.Open(nil, nil, sealed, b.purpose)
	if err != nil {
		return nil, errors.New("sealed under another key, for another purpose, or damaged")
	}

	return plain, nil
}

// SealString seals a secret into printable text; the empty string stays empty.
func (b Box) SealString(secret string) string {
	if secret == "" {
		return ""
	}

	return sealedPrefix + base64.RawURLEncoding.EncodeToString(b.Seal([]byte(secret)))
}

// OpenString decrypts the result of SealString.
func (b Box) OpenString(s string) (string, error) {
	if s == "" {
		return "", nil
	}

	raw, ok := strings.CutPrefix(s, sealedPrefix)
	if !ok {
		return "", errors.New("not a sealed secret")
	}

	sealed, err := base64.RawURLEncoding.DecodeString(raw)
	if err != nil {
		return "", fmt.Errorf("sealed secret: %w", err)
	}

	plain, err := b.Open(sealed)

	return string(plain), err
}
