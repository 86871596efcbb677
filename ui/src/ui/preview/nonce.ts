// The nonce of this page's styles, for libraries that write a <style> of their own.
export const nonce = () => document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce ?? '';
