package config

import "path/filepath"

func dirOf(file string) string {
	if file == "" {
		return ""
	}
	return filepath.Dir(file)
}
