package session

import "context"

// Prefixed returns a Keeper that stores in k under keys with a prefix, which must be a safe file name.
func Prefixed(prefix string, k Keeper) Keeper { return prefixed{prefix, k} }

type prefixed struct {
	prefix string
	keeper Keeper
}

func (p prefixed) Load(ctx context.Context, key string) ([]byte, error) {
	return p.keeper.Load(ctx, p.prefix+key)
}

func (p prefixed) Save(ctx context.Context, key string, data []byte) error {
	return p.keeper.Save(ctx, p.prefix+key, data)
}

func (p prefixed) Delete(ctx context.Context, key string) error {
	return p.keeper.Delete(ctx, p.prefix+key)
}
