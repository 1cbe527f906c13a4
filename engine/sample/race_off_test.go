//go:build !race

package sample_test

const race = false
