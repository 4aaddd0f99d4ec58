package passage

// Numbers assigns consecutive numbers, from 1, to tokens, which are given by their hashes.
type Numbers struct {
	keys  []uint32 // open addressing with linear probing; 0 marks a free place
	ids   []int32
	count int32
}

// Count returns how many tokens have a number.
func (n *Numbers) Count() int { return int(n.count) }

// Of returns the number of a token, and assigns one if it has none; the hash 0, which means no token, has the number 0.
func (n *Numbers) Of(hash uint32) int32 {
	if hash == 0 {
		return 0
	}
	if 2*int(n.count) >= len(n.keys) {
		n.grow()
	}
	place := n.find(hash)
	if n.keys[place] == 0 {
		n.count++
		n.keys[place], n.ids[place] = hash, n.count
	}
	return n.ids[place]
}

// find returns the place of a token, or the free place for it.
func (n *Numbers) find(hash uint32) uint32 {
	mask := uint32(len(n.keys) - 1)
	place := hash * 2654435769 >> 7 & mask // shifted, because the lowest bit of every hash is 1
	for n.keys[place] != 0 && n.keys[place] != hash {
		place = (place + 1) & mask
	}
	return place
}

func (n *Numbers) grow() {
	keys, ids := n.keys, n.ids
	size := max(1024, 2*len(keys))
	n.keys, n.ids = make([]uint32, size), make([]int32, size)
	for k, hash := range keys {
		if hash != 0 {
			place := n.find(hash)
			n.keys[place], n.ids[place] = hash, ids[k]
		}
	}
}
