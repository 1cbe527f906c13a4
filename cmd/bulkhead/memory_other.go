//go:build !linux

package main

// freeMemory is a guess where the system is not asked; --prefill-pool and --decode-pool say better.
func freeMemory() (free int64, known bool) { return fallbackMemory, false }
