// What a token reaches, in words.
import type { Token } from '~/api/settings';
import { t } from '~/text/t.svelte';

export function reachOf(token: Pick<Token, 'agent' | 'project' | 'workspace' | 'kind'>): string {
  if (token.agent) return t('tokens.agent', { name: token.agent });
  if (token.workspace) return t('tokens.workspace', { name: token.workspace });
  if (token.project) return t('tokens.project', { name: token.project });
  return token.kind === 'admin' ? t('tokens.admin') : token.kind;
}
