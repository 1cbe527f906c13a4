package kernel

import "encoding/binary"

// The kernels of MatMul in pure Go, one row at a time.

type lanes [PanelRows]float32

func mulFloat(a *mulArgs, line int, at func([]byte) float32) {
	for p := range a.panels {
		w := a.w[p*a.panelBytes:][:a.panelBytes]
		var acc lanes
		for k, x := range a.x {
			part := w[k*line:][:line]
			for i := range acc {
				acc[i] += float32(at(part[i*line/PanelRows:]) * x)
			}
		}
		copy(a.dst[p*PanelRows:], acc[:])
	}
}

func mulF32(a *mulArgs)  { mulFloat(a, 64, f32At) }
func mulF16(a *mulArgs)  { mulFloat(a, 32, f16At) }
func mulBF16(a *mulArgs) { mulFloat(a, 32, bf16At) }

// addScaled adds a block's integer sums, each times its row's scale and the activations'.
func (acc *lanes) addScaled(isum *[PanelRows]int32, scales []byte, dx float32) {
	for i := range acc {
		acc[i] += float32(float32(isum[i]) * float32(f16At(scales[2*i:])*dx))
	}
}

func mulQ8_0(a *mulArgs) {
	for p := range a.panels {
		w := a.w[p*a.panelBytes:][:a.panelBytes]
		var acc lanes
		for b := range a.blocks {
			var isum [PanelRows]int32
			block, q := w[b*544:][:544], a.q[b*QuantLen:][:QuantLen]
			for g := range QuantLen / 4 {
				line := block[32+g*64:][:64]
				x0, x1, x2, x3 := int32(q[4*g]), int32(q[4*g+1]), int32(q[4*g+2]), int32(q[4*g+3])
				for i := range isum {
					v := binary.LittleEndian.Uint32(line[4*i:])
					isum[i] += int32(int8(v))*x0 + int32(int8(v>>8))*x1 + int32(int8(v>>16))*x2 + int32(v)>>24*x3
				}
			}
			acc.addScaled(&isum, block, a.scale[b])
		}
		copy(a.dst[p*PanelRows:], acc[:])
	}
}

// sumQ4 adds up a block of four bits, start being what every sum starts from.
func sumQ4(isum *[PanelRows]int32, lines []byte, q []int8, start int32) {
	for i := range isum {
		isum[i] = start
	}
	for g := range QuantLen / 8 {
		line, lo, hi := lines[g*64:][:64], q[4*g:][:4], q[4*g+16:][:4]
		for i := range isum {
			for j, v := range line[4*i:][:4] {
				isum[i] += int32(v&15)*int32(lo[j]) + int32(v>>4)*int32(hi[j])
			}
		}
	}
}

func mulQ4_0(a *mulArgs) {
	for p := range a.panels {
		w := a.w[p*a.panelBytes:][:a.panelBytes]
		var acc lanes
		for b := range a.blocks {
			var isum [PanelRows]int32
			block := w[b*288:][:288]
			sumQ4(&isum, block[32:], a.q[b*QuantLen:][:QuantLen], -8*a.qsum[b])
			acc.addScaled(&isum, block, a.scale[b])
		}
		copy(a.dst[p*PanelRows:], acc[:])
	}
}

func mulQ4_1(a *mulArgs) {
	for p := range a.panels {
		w := a.w[p*a.panelBytes:][:a.panelBytes]
		var acc lanes
		for b := range a.blocks {
			var isum [PanelRows]int32
			block, dx := w[b*320:][:320], a.scale[b]
			sumQ4(&isum, block[64:], a.q[b*QuantLen:][:QuantLen], 0)
			acc.addScaled(&isum, block, dx)
			s := dx * float32(a.qsum[b])
			for i := range acc {
				acc[i] += float32(f16At(block[32+2*i:]) * s)
			}
		}
		copy(a.dst[p*PanelRows:], acc[:])
	}
}
