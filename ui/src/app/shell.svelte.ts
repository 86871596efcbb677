// What the frame shows over the view.
class ShellState {
  palette = $state(false);
  help = $state(false);
}

export const shell = new ShellState();
