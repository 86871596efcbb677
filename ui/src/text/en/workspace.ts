export const workspace = {};
