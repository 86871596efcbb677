// Words of agents.
export const agents = {
};
