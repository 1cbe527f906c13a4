package main

import "testing"

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8081": true, "127.9.9.9:1": true, "[::1]:8081": true, "::1": true, "localhost:80": true, "LOCALHOST": true,
		"[::ffff:127.0.0.1]:80": true, "127.0.0.1": true,
		"0.0.0.0:8081": false, ":8081": false, "": false, "[::]:8081": false, "10.0.0.5:1": false, "example.org:80": false,
		"localhost.example.org:80": false, "127.0.0.1.example.org:80": false, "[::ffff:10.0.0.1]:80": false, "127.1:80": false,
	} {
		if isLoopback(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
	}
}
