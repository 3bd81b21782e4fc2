package host

import "strings"

// mergeEnv merges environments, the later ones winning, without duplicates. Names keep the place of their first
// appearance. Entries without "=" are left to the spec's validation.
func mergeEnv(layers ...[]string) []string {
	var out []string
	at := make(map[string]int)
	for _, layer := range layers {
		for _, e := range layer {
			name, _, _ := strings.Cut(e, "=")
			if i, ok := at[name]; ok {
				out[i] = e
				continue
			}
			at[name] = len(out)
			out = append(out, e)
		}
	}
	return out
}
