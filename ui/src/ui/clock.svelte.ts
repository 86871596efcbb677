// One clock for every relative time on the page.

class Clock {
  now = $state(Date.now());
  constructor() {
    setInterval(() => document.hidden || (this.now = Date.now()), 10_000);
    document.addEventListener('visibilitychange', () => document.hidden || (this.now = Date.now()));
  }
}

export const clock = new Clock();
