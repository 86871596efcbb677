// What the view says about itself: its title and the crumbs in the bar.

export interface Crumb {
  title: string;
  href?: string;
}

class Page {
  crumbs = $state.raw<Crumb[]>([]);
}

export const page = new Page();

/** Sets title and crumbs for as long as the view is there. */
export function usePage(crumbs: () => Crumb[]): void {
  $effect(() => {
    const now = crumbs();
    page.crumbs = now;
    document.title = [...now.map((crumb) => crumb.title).reverse(), 'Offshoot'].join(' · ');
  });
}
