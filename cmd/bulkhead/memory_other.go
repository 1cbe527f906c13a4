//go:build !linux

package main

// freeMemory is a guess where the system is not asked; --prefill-pool and --decode-pool say better.
func freeMemory() int64 { return fallbackMemory }
