// Whether there is room for panes beside each other.

class Media {
  #query = window.matchMedia('(max-width: 700px)');
  narrow = $state(this.#query.matches);
  constructor() {
    this.#query.addEventListener('change', () => (this.narrow = this.#query.matches));
  }
}

export const media = new Media();
