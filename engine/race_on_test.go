//go:build race

package engine_test

const race = true // pools of the standard library drop things at random then
