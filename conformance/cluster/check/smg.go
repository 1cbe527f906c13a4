package main

import (
	"context"
	"errors"
)

func (o *options) throughSMG(context.Context) error { return errors.New("later") }
