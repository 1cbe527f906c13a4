package tcp

// queue is first in, first out, and keeps its memory.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(x T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, x)
}

func (q *queue[T]) front() T { return q.items[q.head] }

func (q *queue[T]) at(i int) T { return q.items[q.head+i] }

func (q *queue[T]) pop() T {
	var none T
	x := q.items[q.head]
	q.items[q.head] = none
	q.head++
	return x
}
