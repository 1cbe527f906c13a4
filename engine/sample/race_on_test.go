//go:build race

package sample_test

const race = true // pools of the standard library drop things at random then
