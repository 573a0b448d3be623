package xlashape

import "iter"

// each passes the answers of a call on, if there is one for each item of the request.
func each[T any](answers []T, expected int, err error) ([]T, error) {
	if err == nil && len(answers) != expected {
		err = mistake("INVALID_ANSWER", "", "the server answered %d of %d items", len(answers), expected)
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// one passes the only answer on.
func one[T any](answers []T, err error) (answer T, _ error) {
	if err == nil {
		answer = answers[0]
	}
	return answer, err
}

// pages returns an iterator over the items of all pages, from that of the token `first` on.
func pages[T any](fetch func(token string) ([]T, string, error), first string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		token := first
		for {
			items, next, err := fetch(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}
